class web {
  package { 'nginx': ensure => installed }
  -> file { '/nowhere/nginx.conf': content => 'x' }
  ~> service { 'nginx': ensure => running, enable => true }
}
include web
#=> pkg[nginx]
#=> file[/nowhere/nginx.conf] path=/nowhere/nginx.conf state=exists content=x instead=true
#=> svc[nginx] state=running startup=enabled restart=true unmask=true restart_interval=1800
#=> file[/nowhere/nginx.conf] ~> noop[completed_Class[Web]]
#=> file[/nowhere/nginx.conf] ~> svc[nginx]
#=> noop[admissible_Class[Main]] -> noop[completed_Class[Main]]
#=> noop[admissible_Class[Web]] ~> file[/nowhere/nginx.conf]
#=> noop[admissible_Class[Web]] ~> pkg[nginx]
#=> noop[admissible_Class[Web]] ~> svc[nginx]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Web]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Web]] ~> noop[completed_Stage[main]]
#=> pkg[nginx] -> file[/nowhere/nginx.conf]
#=> pkg[nginx] ~> noop[completed_Class[Web]]
#=> svc[nginx] ~> noop[completed_Class[Web]]
