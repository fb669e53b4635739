file { '/nowhere': ensure => directory, owner => 'ann' }
file { '/nowhere/d/x': content => '' }
user { 'ann': ensure => present, gid => 'ops' }
group { 'ops': ensure => present }
exec { '/nowhere/d/x y': cwd => '/nowhere' }
#=> file[/nowhere] path=/nowhere/ state=exists owner=ann instead=true
#=> file[/nowhere/d/x] path=/nowhere/d/x state=exists content= instead=true
#=> user[ann] state=exists group=ops
#=> group[ops] state=exists
#=> exec[/nowhere/d/x y] cmd=/nowhere/d/x y cwd=/nowhere shell=/bin/sh env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} ifcwd=/nowhere nifcwd=/nowhere meta:poll=1800 meta:timeout=300000
#=> exec[/nowhere/d/x y] ~> noop[completed_Class[Main]]
#=> file[/nowhere/d/x] -> exec[/nowhere/d/x y]
#=> file[/nowhere/d/x] ~> noop[completed_Class[Main]]
#=> file[/nowhere] -> exec[/nowhere/d/x y]
#=> file[/nowhere] -> file[/nowhere/d/x]
#=> file[/nowhere] ~> noop[completed_Class[Main]]
#=> group[ops] -> user[ann]
#=> group[ops] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[/nowhere/d/x y]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/d/x]
#=> noop[admissible_Class[Main]] ~> file[/nowhere]
#=> noop[admissible_Class[Main]] ~> group[ops]
#=> noop[admissible_Class[Main]] ~> user[ann]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> user[ann] -> file[/nowhere]
#=> user[ann] ~> noop[completed_Class[Main]]
