file { '/nowhere/a': content => Sensitive('hush'), mode => '0644' }
file { '/nowhere/b': content => 'plain', show_diff => false }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=hush mode=0644 instead=true showdiff=false
#=> file[/nowhere/b] path=/nowhere/b state=exists content=plain instead=true showdiff=false
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
