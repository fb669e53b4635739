service { 'a': ensure => running, enable => true }
service { 'b': ensure => stopped, enable => mask, hasrestart => true, hasstatus => true }
service { 'c.timer': ensure => running, enable => false }
service { 'd': ensure => running, restart => '/bin/kick' }
#=> svc[a] state=running startup=enabled restart=true unmask=true restart_interval=1800
#=> svc[b] state=stopped startup=masked restart=true unmask=true
#=> svc[c.timer] state=running startup=disabled restart=true unmask=true restart_interval=1800
#=> pippet[Service[d]] type=service title=d params={"ensure":"running","restart":"/bin/kick"} watchfiles=["/bin/kick"] interval=1800
#=> noop[admissible_Class[Main]] ~> pippet[Service[d]]
#=> noop[admissible_Class[Main]] ~> svc[a]
#=> noop[admissible_Class[Main]] ~> svc[b]
#=> noop[admissible_Class[Main]] ~> svc[c.timer]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Service[d]] ~> noop[completed_Class[Main]]
#=> svc[a] ~> noop[completed_Class[Main]]
#=> svc[b] ~> noop[completed_Class[Main]]
#=> svc[c.timer] ~> noop[completed_Class[Main]]
#=> Service[d] is left to Puppet: `restart` has no counterpart
