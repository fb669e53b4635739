file { '/nowhere/a': content => Binary('AAH/') }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=\x00\x01\xff instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
