file { '/nowhere/a': content => 'x' }
~> exec { 'reload': command => '/bin/reload', refreshonly => true, tries => 3, try_sleep => 2, timeout => 10 }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=x instead=true
#=> exec[reload] cmd=/bin/reload shell=/bin/sh env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} refreshonly=true meta:retry=2 meta:delay=2000 meta:timeout=10000
#=> exec[reload] ~> noop[completed_Class[Main]]
#=> file[/nowhere/a] ~> exec[reload]
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[reload]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
