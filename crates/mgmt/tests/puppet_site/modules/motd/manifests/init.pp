# What is said at log-in.
class motd {
  file { '/etc/motd': content => "This host is managed.\n", mode => '0644', tag => ['banner'], loglevel => debug }
  file { '/etc/issue': ensure => link, target => '/etc/motd' }
  file { '/etc/motd.tail': ensure => absent }
  file { '/etc/update-motd.d': ensure => absent, force => true }
  anchor { 'motd::end': require => File['/etc/motd'] }
}
