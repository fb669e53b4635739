File { owner => 'root', mode => '0644' }
file { '/nowhere/d': ensure => directory }
file { '/nowhere/d/f': ensure => file }
#=> file[/nowhere/d] path=/nowhere/d/ state=exists owner=root mode=0755 instead=true
#=> file[/nowhere/d/f] path=/nowhere/d/f state=exists owner=root mode=0644 instead=true
#=> file[/nowhere/d/f] ~> noop[completed_Class[Main]]
#=> file[/nowhere/d] -> file[/nowhere/d/f]
#=> file[/nowhere/d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/d/f]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/d]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
