exec { 'login': command => Sensitive('/bin/login hush') }
exec { 'env': command => '/bin/a', environment => Sensitive(['TOKEN=hush']) }
#=> pippet[Exec[login]] type=exec title=login params={"command":"/bin/login hush"} sensitive=["command"] meta:poll=1800
#=> exec[env] cmd=/bin/a shell=/bin/sh env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TOKEN": "hush"} meta:poll=1800 meta:timeout=300000
#=> exec[env] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[env]
#=> noop[admissible_Class[Main]] ~> pippet[Exec[login]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Exec[login]] ~> noop[completed_Class[Main]]
#=> Exec[login] is left to Puppet: `command` is a secret, which would be told with what is done
