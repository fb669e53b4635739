# A web server with virtual hosts.
class web(Hash $sites) {
  package { 'example-web': ensure => latest }
  -> file { ['/etc/example-web', '/etc/example-web/sites-available', '/etc/example-web/sites-enabled']: ensure => directory }
  file { '/etc/example-web/conf.d':
    ensure  => directory,
    source  => 'puppet:///modules/web/conf.d',
    recurse => true,
    purge   => true,
    owner   => 'www-data',
    group   => 'root',
    mode    => '0640',
    require => File['/etc/example-web'],
    notify  => Service['example-web'],
  }
  file { '/etc/example-web/conf.d/local.conf': content => "local\n", mode => '0600', notify => Service['example-web'] }
  $sites.each |$name, $site| { web::site { $name: * => $site } }
  file { '/srv/www': ensure => directory, recurse => true, owner => 'www-data', mode => '0644' }
  exec { 'make the certificate':
    command => 'install -d -m 0700 /etc/example-web/tls && echo certificate > /etc/example-web/tls/cert.pem',
    creates => '/etc/example-web/tls/cert.pem',
    path    => '/usr/bin:/bin',
    umask   => '077',
    require => File['/etc/example-web'],
  }
  -> file { '/etc/example-web/tls/cert.pem': ensure => file, mode => 'go-rwx' }
  service { 'example-web': ensure => running, enable => true, subscribe => Exec['make the certificate'] }
}
define web::site(Integer $port, Array[String] $aliases = []) {
  file { "/etc/example-web/sites-available/${name}.conf":
    content => epp('web/site.epp', { 'name' => $name, 'port' => $port, 'aliases' => $aliases }),
  }
  ~> file { "/etc/example-web/sites-enabled/${name}.conf": ensure => link, target => "../sites-available/${name}.conf" }
  ~> Service['example-web']
  host { $name: ip => '127.0.0.2', host_aliases => $aliases }
}
