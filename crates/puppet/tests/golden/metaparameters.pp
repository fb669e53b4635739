file { '/nowhere/a': content => 'x', noop => true, loglevel => info, tag => ['one', 'two'], alias => 'it' }
file { '/nowhere/b': content => 'y', require => File['it'], noop => false }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=x instead=true meta:noop=1
#=> file[/nowhere/b] path=/nowhere/b state=exists content=y instead=true
#=> file[/nowhere/a] -> file[/nowhere/b]
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
