file { '/nowhere/sysctl.conf': ensure => file }
augeas { 'sysctl': incl => '/nowhere/sysctl.conf', lens => 'Sysctl.lns', changes => ['rm kernel.sysrq', 'set net.ipv4.ip_forward 1', 'set vm.swappiness 10'] }
augeas { 'more': context => '/files/etc/hosts', changes => 'rm 1', onlyif => 'match * size > 3' }
#=> file[/nowhere/sysctl.conf] path=/nowhere/sysctl.conf state=exists instead=true
#=> augeas[sysctl] file=/nowhere/sysctl.conf lens=Sysctl.lns sets=[struct{path: "net.ipv4.ip_forward"; value: "1"}, struct{path: "vm.swappiness"; value: "10"}] rm=["kernel.sysrq"]
#=> pippet[Augeas[more]] type=augeas title=more params={"context":"/files/etc/hosts","changes":"rm 1","onlyif":"match * size > 3"} paths=["/etc/hosts"] watchfiles=["/files/etc/hosts"] interval=1800
#=> augeas[sysctl] ~> noop[completed_Class[Main]]
#=> file[/nowhere/sysctl.conf] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> augeas[sysctl]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/sysctl.conf]
#=> noop[admissible_Class[Main]] ~> pippet[Augeas[more]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Augeas[more]] ~> noop[completed_Class[Main]]
#=> Augeas[more] is left to Puppet: `incl` is not given, and so any file may be meant; `context` has no counterpart; `changes` has no counterpart; `onlyif` has no counterpart
