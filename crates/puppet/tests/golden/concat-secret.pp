concat_file { '/nowhere/c': }
concat_fragment { 'a': target => '/nowhere/c', content => Sensitive('hush') }
#=> file[/nowhere/c] path=/nowhere/c state=exists content=hush instead=true showdiff=false
#=> noop[Concat_fragment[a]]
#=> file[/nowhere/c] ~> noop[completed_Class[Main]]
#=> noop[Concat_fragment[a]] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/c]
#=> noop[admissible_Class[Main]] ~> noop[Concat_fragment[a]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
