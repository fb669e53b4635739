# Where packages come from.
class repository {
  file { '/etc/apt/keyrings': ensure => directory, mode => '0755' }
  file { '/etc/apt/keyrings/example.asc': source => 'puppet:///modules/repository/example.asc', mode => '0644' }
  file { '/etc/apt/sources.list.d':
    ensure  => directory,
    recurse => true,
    purge   => true,
  }
  file { '/etc/apt/sources.list.d/example.list':
    content => "deb [trusted=yes] file:/mgmt-test-source ./\n",
    require => File['/etc/apt/keyrings/example.asc'],
    notify  => Exec['read the package lists'],
  }
  file { '/etc/apt/preferences.d/example': content => "Package: *\nPin: origin \"\"\nPin-Priority: 700\n" }
  file { '/etc/apt/sources.list': ensure => absent }
  exec { 'read the package lists':
    command     => 'apt-get --quiet update',
    path        => ['/usr/bin', '/bin'],
    refreshonly => true,
    logoutput   => on_failure,
    tries       => 3,
    try_sleep   => 1,
  }
}
