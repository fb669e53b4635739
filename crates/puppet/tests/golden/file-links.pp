file { '/nowhere/a': ensure => link, target => '/nowhere/b' }
file { '/nowhere/c': ensure => '/nowhere/a' }
file { '/nowhere/b': ensure => file }
#=> file[/nowhere/a] path=/nowhere/a state=exists source=/nowhere/b symlink=true instead=true
#=> file[/nowhere/c] path=/nowhere/c state=exists source=/nowhere/a symlink=true instead=true
#=> file[/nowhere/b] path=/nowhere/b state=exists instead=true
#=> file[/nowhere/a] -> file[/nowhere/c]
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] -> file[/nowhere/a]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> file[/nowhere/c] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/c]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
