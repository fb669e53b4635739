augeas { 'sysctl': incl => '/nowhere/sysctl.conf', lens => 'Sysctl.lns', changes => ['set net.ipv4.ip_forward 1', 'set vm.swappiness 10'] }
augeas { 'more': context => '/files/etc/hosts', changes => 'rm 1', onlyif => 'match * size > 3' }
#=> pippet[Augeas[sysctl]] type=augeas title=sysctl params={"incl":"/nowhere/sysctl.conf","lens":"Sysctl.lns","changes":["set net.ipv4.ip_forward 1","set vm.swappiness 10"]} meta:poll=1800
#=> pippet[Augeas[more]] type=augeas title=more params={"context":"/files/etc/hosts","changes":"rm 1","onlyif":"match * size > 3"} meta:poll=1800
#=> noop[admissible_Class[Main]] ~> pippet[Augeas[more]]
#=> noop[admissible_Class[Main]] ~> pippet[Augeas[sysctl]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Augeas[more]] ~> noop[completed_Class[Main]]
#=> pippet[Augeas[sysctl]] ~> noop[completed_Class[Main]]
#=> Augeas[sysctl] is left to Puppet: `augeas` refuses it: this build of mgmt does not have the kind augeas
#=> Augeas[more] is left to Puppet: `incl` is not given, and so any file may be meant; `context` has no counterpart; `changes` has no counterpart; `onlyif` has no counterpart
