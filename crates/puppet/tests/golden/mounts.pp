mount { '/nowhere/data': ensure => mounted, device => '/dev/sdb1', fstype => 'ext4', options => 'noatime,x=a=b', dump => 0, pass => 2 }
mount { '/nowhere/swap': ensure => present, device => '/dev/sdb2', fstype => 'swap', options => 'sw' }
file { '/nowhere/data/x': ensure => directory }
#=> mount[/nowhere/data] state=exists device=/dev/sdb1 type=ext4 passno=2 optionstext=noatime,x=a=b
#=> pippet[Mount[/nowhere/swap]] type=mount title=/nowhere/swap params={"ensure":"present","device":"/dev/sdb2","fstype":"swap","options":"sw"} paths=["/etc/fstab", "/nowhere/swap"] watchfiles=["/nowhere/swap"] interval=1800
#=> file[/nowhere/data/x] path=/nowhere/data/x/ state=exists instead=true
#=> file[/nowhere/data/x] ~> noop[completed_Class[Main]]
#=> mount[/nowhere/data] -> file[/nowhere/data/x]
#=> mount[/nowhere/data] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/data/x]
#=> noop[admissible_Class[Main]] ~> mount[/nowhere/data]
#=> noop[admissible_Class[Main]] ~> pippet[Mount[/nowhere/swap]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Mount[/nowhere/swap]] ~> noop[completed_Class[Main]]
#=> Mount[/nowhere/swap] is left to Puppet: `mount` refuses it: `type`: swap space is not mounted
