# Who has an account.
class accounts {
  group { 'admins': ensure => present, gid => 4000 }
  group { 'exampletime': ensure => present, system => true, gid => 399 }
  user { 'exampletime': ensure => present, system => true, uid => 399, gid => 'exampletime', home => '/nonexistent', shell => '/usr/sbin/nologin' }
  user { 'deploy':
    ensure     => present,
    uid        => 4001,
    gid        => 'admins',
    groups     => ['www-data'],
    home       => '/home/deploy',
    managehome => true,
    shell      => '/bin/sh',
    comment    => 'Deploys',
    password   => Sensitive('$6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy.g.'),
  }
  file { '/home/deploy/.profile.d': ensure => directory, owner => 'deploy', group => 'admins', mode => '0700' }
  user { 'games': ensure => absent }
}
