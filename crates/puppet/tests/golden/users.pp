group { 'ops': ensure => present, gid => 700 }
user { 'ann':
  ensure     => present,
  uid        => 701,
  gid        => 'ops',
  groups     => ['adm', 'sudo'],
  home       => '/home/ann',
  shell      => '/bin/bash',
  managehome => true,
  comment    => 'Ann',
  password   => Sensitive('$6$x'),
}
user { 'old': ensure => absent, managehome => true }
#=> group[ops] state=exists gid=700
#=> user[ann] state=exists uid=701 group=ops groups=["adm", "sudo"] othergroups=true homedir=/home/ann/ shell=/bin/bash comment=Ann password=$6$x createhome=true movehome=true
#=> user[old] state=absent removehome=true
#=> group[ops] -> user[ann]
#=> group[ops] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> group[ops]
#=> noop[admissible_Class[Main]] ~> user[ann]
#=> noop[admissible_Class[Main]] ~> user[old]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> user[ann] ~> noop[completed_Class[Main]]
#=> user[old] ~> noop[completed_Class[Main]]
