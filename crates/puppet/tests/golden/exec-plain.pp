exec { '/bin/true': }
exec { 'named': command => 'true && false || :', path => ['/bin', '/usr/bin'] }
#=> exec[/bin/true] cmd=/bin/true shell=/bin/sh env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} meta:poll=1800 meta:timeout=300000
#=> exec[named] cmd=true && false || : shell=/bin/sh env={"LANG": "C", "PATH": "/bin:/usr/bin"} meta:poll=1800 meta:timeout=300000
#=> exec[/bin/true] ~> noop[completed_Class[Main]]
#=> exec[named] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[/bin/true]
#=> noop[admissible_Class[Main]] ~> exec[named]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
