define sysctl($value) {
  file { "/nowhere/sysctl.d/${name}.conf": content => "${name} = ${value}\n" }
  ~> exec { "sysctl ${name}": command => "sysctl -p /nowhere/sysctl.d/${name}.conf", refreshonly => true, path => ['/sbin', '/usr/sbin'] }
}
sysctl { 'net.ipv4.ip_forward': value => 1 }
sysctl { 'vm.swappiness': value => 10 }
#=> file[/nowhere/sysctl.d/net.ipv4.ip_forward.conf] path=/nowhere/sysctl.d/net.ipv4.ip_forward.conf state=exists content=net.ipv4.ip_forward = 1\n instead=true
#=> exec[sysctl net.ipv4.ip_forward] cmd=sysctl -p /nowhere/sysctl.d/net.ipv4.ip_forward.conf shell=/bin/sh env={"LANG": "C", "PATH": "/sbin:/usr/sbin"} refreshonly=true meta:timeout=300000
#=> file[/nowhere/sysctl.d/vm.swappiness.conf] path=/nowhere/sysctl.d/vm.swappiness.conf state=exists content=vm.swappiness = 10\n instead=true
#=> exec[sysctl vm.swappiness] cmd=sysctl -p /nowhere/sysctl.d/vm.swappiness.conf shell=/bin/sh env={"LANG": "C", "PATH": "/sbin:/usr/sbin"} refreshonly=true meta:timeout=300000
#=> exec[sysctl net.ipv4.ip_forward] ~> noop[completed_Sysctl[net.ipv4.ip_forward]]
#=> exec[sysctl vm.swappiness] ~> noop[completed_Sysctl[vm.swappiness]]
#=> file[/nowhere/sysctl.d/net.ipv4.ip_forward.conf] ~> exec[sysctl net.ipv4.ip_forward]
#=> file[/nowhere/sysctl.d/net.ipv4.ip_forward.conf] ~> noop[completed_Sysctl[net.ipv4.ip_forward]]
#=> file[/nowhere/sysctl.d/vm.swappiness.conf] ~> exec[sysctl vm.swappiness]
#=> file[/nowhere/sysctl.d/vm.swappiness.conf] ~> noop[completed_Sysctl[vm.swappiness]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Sysctl[net.ipv4.ip_forward]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Sysctl[vm.swappiness]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Sysctl[net.ipv4.ip_forward]] ~> exec[sysctl net.ipv4.ip_forward]
#=> noop[admissible_Sysctl[net.ipv4.ip_forward]] ~> file[/nowhere/sysctl.d/net.ipv4.ip_forward.conf]
#=> noop[admissible_Sysctl[vm.swappiness]] ~> exec[sysctl vm.swappiness]
#=> noop[admissible_Sysctl[vm.swappiness]] ~> file[/nowhere/sysctl.d/vm.swappiness.conf]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Sysctl[net.ipv4.ip_forward]] ~> noop[completed_Class[Main]]
#=> noop[completed_Sysctl[vm.swappiness]] ~> noop[completed_Class[Main]]
