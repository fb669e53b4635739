exec { 'words': command => ['/bin/echo', 'a b', "it's"] }
exec { 'looked up': command => ['echo', 'x'], path => '/bin' }
#=> exec[words] cmd=/bin/echo args=["a b", "it's"] env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} meta:poll=1800 meta:timeout=300000
#=> exec[looked up] cmd=/usr/bin/env args=["echo", "x"] env={"LANG": "C", "PATH": "/bin"} meta:poll=1800 meta:timeout=300000
#=> exec[looked up] ~> noop[completed_Class[Main]]
#=> exec[words] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[looked up]
#=> noop[admissible_Class[Main]] ~> exec[words]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
