# A service that keeps the time.
class timeservice(Array[String] $servers) {
  contain timeservice::install
  contain timeservice::config
  contain timeservice::service
  Class['timeservice::install'] -> Class['timeservice::config'] ~> Class['timeservice::service']
}
class timeservice::install {
  package { 'example-time': ensure => '2.0' }
  package { 'example-oldtime': ensure => purged }
}
class timeservice::config {
  file { '/etc/example-time.conf':
    ensure       => file,
    owner        => 'root',
    group        => 'root',
    mode         => '0644',
    backup       => '.before-puppet',
    content      => template('timeservice/time.conf.erb'),
    validate_cmd => '/bin/grep -q ^server %',
  }
  file { '/var/lib/example-time': ensure => directory, owner => 'exampletime', group => 'exampletime', mode => '0640' }
  file { '/etc/default/example-time': content => "OPTIONS=-4\n", replace => false }
}
class timeservice::service {
  service { 'example-time': ensure => running, enable => true, hasstatus => true, hasrestart => true }
  service { 'example-fallback': ensure => stopped, enable => mask }
}
