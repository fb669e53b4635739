# A server to log in at.
class ssh {
  file { '/etc/example-ssh': ensure => directory }
  file { '/etc/example-ssh/sshd_config': content => "Port 22\n#PermitRootLogin yes\n" , replace => false }
  -> file_line { 'no password': path => '/etc/example-ssh/sshd_config', line => 'PasswordAuthentication no' }
  -> file_line { 'no root': path => '/etc/example-ssh/sshd_config', line => 'PermitRootLogin no', match => '^#?PermitRootLogin' }
  ssh_authorized_key { 'deploy@example.com':
    user => 'deploy',
    type => 'ssh-ed25519',
    key  => 'AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg',
  }
  exec { 'check the configuration':
    command     => ['/bin/grep', '-q', '^PasswordAuthentication no$', '/etc/example-ssh/sshd_config'],
    subscribe   => File_line['no password'],
    refreshonly => true,
  }
}
