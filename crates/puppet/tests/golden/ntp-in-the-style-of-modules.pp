class ntp(Array[String] $servers = ['0.pool', '1.pool'], String $package = 'ntp') {
  contain ntp::install
  contain ntp::config
  contain ntp::service
  Class['ntp::install'] -> Class['ntp::config'] ~> Class['ntp::service']
}
class ntp::install { package { $ntp::package: ensure => present } }
class ntp::config {
  file { '/nowhere/ntp.conf': content => $ntp::servers.map |$s| { "server ${s}\n" }.join, mode => '0644' }
}
class ntp::service { service { 'ntp': ensure => running, enable => true, hasstatus => true, hasrestart => true } }
include ntp
#=> pkg[ntp]
#=> file[/nowhere/ntp.conf] path=/nowhere/ntp.conf state=exists content=server 0.pool\nserver 1.pool\n mode=0644 instead=true
#=> svc[ntp] state=running startup=enabled restart=true unmask=true restart_interval=1800
#=> file[/nowhere/ntp.conf] ~> noop[completed_Class[Ntp::Config]]
#=> noop[admissible_Class[Main]] -> noop[completed_Class[Main]]
#=> noop[admissible_Class[Ntp::Config]] ~> file[/nowhere/ntp.conf]
#=> noop[admissible_Class[Ntp::Install]] ~> pkg[ntp]
#=> noop[admissible_Class[Ntp::Service]] ~> svc[ntp]
#=> noop[admissible_Class[Ntp]] ~> noop[admissible_Class[Ntp::Config]]
#=> noop[admissible_Class[Ntp]] ~> noop[admissible_Class[Ntp::Install]]
#=> noop[admissible_Class[Ntp]] ~> noop[admissible_Class[Ntp::Service]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Ntp::Config]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Ntp::Install]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Ntp::Service]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Ntp]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Ntp::Config]] ~> noop[admissible_Class[Ntp::Service]]
#=> noop[completed_Class[Ntp::Config]] ~> noop[completed_Class[Ntp]]
#=> noop[completed_Class[Ntp::Config]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Ntp::Install]] -> noop[admissible_Class[Ntp::Config]]
#=> noop[completed_Class[Ntp::Install]] ~> noop[completed_Class[Ntp]]
#=> noop[completed_Class[Ntp::Install]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Ntp::Service]] ~> noop[completed_Class[Ntp]]
#=> noop[completed_Class[Ntp::Service]] ~> noop[completed_Stage[main]]
#=> noop[completed_Class[Ntp]] ~> noop[completed_Stage[main]]
#=> pkg[ntp] ~> noop[completed_Class[Ntp::Install]]
#=> svc[ntp] ~> noop[completed_Class[Ntp::Service]]
