exec { '/bin/a': user => 'nobody', group => 'adm', environment => ['A=1', 'B=x=y'], umask => '027', returns => [0, 3], provider => shell, logoutput => true }
#=> exec[/bin/a] cmd=umask '027'\n/bin/a shell=/bin/sh env={"A": "1", "B": "x=y", "LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} user=nobody group=adm returns=[0, 3] meta:poll=1800 meta:timeout=300000
#=> exec[/bin/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[/bin/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
