file { ['/nowhere/a', '/nowhere/b']: ensure => absent }
file { '/nowhere/d': ensure => absent, force => true, recurse => true }
#=> file[/nowhere/a] path=/nowhere/a state=absent
#=> file[/nowhere/b] path=/nowhere/b state=absent
#=> file[/nowhere/d] path=/nowhere/d state=absent recurse=true force=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> file[/nowhere/d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/d]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
