user { 'ann': ensure => present }
ssh_authorized_key { 'ann@laptop': user => 'ann', type => 'ssh-ed25519', key => 'AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg', options => ['no-pty', 'from="192.0.2.0/24"'] }
sshkey { 'h.example.com': type => 'ssh-rsa', key => 'AAAA', host_aliases => ['h', '192.0.2.1'] }
#=> user[ann] state=exists
#=> ssh:authorized_key[ann@laptop] state=exists user=ann options=["no-pty", "from=\"192.0.2.0/24\""] type=ssh-ed25519 key=AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg comment=ann@laptop
#=> ssh:known_host[h.example.com] state=exists hostname=h.example.com aliases=["h", "192.0.2.1"] type=ssh-rsa key=AAAA
#=> noop[admissible_Class[Main]] ~> ssh:authorized_key[ann@laptop]
#=> noop[admissible_Class[Main]] ~> ssh:known_host[h.example.com]
#=> noop[admissible_Class[Main]] ~> user[ann]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> ssh:authorized_key[ann@laptop] ~> noop[completed_Class[Main]]
#=> ssh:known_host[h.example.com] ~> noop[completed_Class[Main]]
#=> user[ann] -> ssh:authorized_key[ann@laptop]
#=> user[ann] ~> noop[completed_Class[Main]]
