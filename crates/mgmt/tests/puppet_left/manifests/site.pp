# Something of every type that comes with Puppet. All of it is left to Puppet, by `--puppet-only`.

Exec { path => '/usr/sbin:/usr/bin:/sbin:/bin' }

# Accounts.
group { 'crew': ensure => present, gid => 4711 }
group { 'made': ensure => present, gid => 4712, allowdupe => false }
group { 'machine': ensure => present, system => true, gid => 947 }
group { 'gone': ensure => absent, require => User['gone'] }
user { 'ada':
  ensure           => present,
  uid              => 4720,
  gid              => 'made',
  groups           => ['crew', 'audio'],
  home             => '/home/ada',
  managehome       => true,
  shell            => '/bin/sh',
  comment          => 'Ada, with an ü',
  password         => Sensitive('$6$saltsalt$qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/'),
  password_min_age => 1,
  password_max_age => 90,
  password_warn_days => 7,
  expiry           => '2040-02-03',
  # Numbers of subordinate users are given in the order of making.
  require          => User['gone'],
}
user { 'busy': ensure => present, groups => ['video', 'dialout'], membership => inclusive, shell => '/bin/sh', uid => 4703 }
user { 'daemon-of-ours': ensure => present, system => true, uid => 946, gid => 'machine', home => '/srv', shell => '/usr/sbin/nologin' }
user { 'gone': ensure => absent, managehome => true }

# Packages and services.
package { 'example-time': ensure => '2.0', install_options => ['--no-install-recommends'] }
package { 'example-web': ensure => latest }
package { 'example-oldtime': ensure => purged }
service { 'example-time': ensure => running, enable => true, require => Package['example-time'] }
service { 'example-web': ensure => stopped, enable => false, require => Package['example-web'] }
service { 'example-fallback': ensure => stopped, enable => mask, require => Package['example-time'] }

# What is mounted, and what is in the table of mounts.
mount { '/srv/mounted': ensure => mounted, device => 'mounted', fstype => 'tmpfs', options => 'size=2m,mode=0750', dump => 0, pass => 2 }
mount { '/srv/table': ensure => present, device => 'table', fstype => 'tmpfs', options => 'noauto,size=1m', atboot => false }
mount { '/srv/away': ensure => unmounted, device => 'away', fstype => 'tmpfs', options => 'size=1m' }
mount { '/srv/gone': ensure => absent }

# What comes with the clock.
cron { 'backup':
  command     => '/usr/bin/backup --all % "x"',
  user        => 'root',
  hour        => [2, '4-6'],
  minute      => '*/10',
  weekday     => ['Mon', 'fri'],
  month       => 'January',
  monthday    => '1-3',
  environment => ['MAILTO=root', 'PATH=/bin:/usr/bin'],
}
cron { 'daily': command => '/bin/daily', user => 'ada', special => 'daily' }
cron { 'gone': ensure => absent, user => 'root' }
cron { 'hourly': command => '/bin/true', user => 'ada', minute => 7, hour => absent }
resources { 'cron': purge => true }

# Tables of hosts and keys.
host { 'there.example.com': ip => '192.0.2.1', host_aliases => ['there', 'here'], comment => 'of ours' }
host { 'gone.example.com': ensure => absent }
sshkey { 'there.example.com': type => 'ssh-rsa', key => 'AAAAB3NzaC1yc2EAAAADAQABAAAAgQC0', host_aliases => ['192.0.2.1'] }
ssh_authorized_key { 'ada@there':
  user    => 'ada',
  type    => 'ssh-ed25519',
  key     => 'AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg',
  options => ['no-pty', 'from="192.0.2.0/24,10.*"'],
}

# Files and commands.
file { '/srv/files': ensure => directory, mode => '0750', group => 'crew' }
file { '/srv/files/text': content => "one\ntwo é\n", mode => '0640', owner => 'ada' }
file { '/srv/files/binary': content => Binary('AAH/') }
file { '/srv/files/link': ensure => link, target => 'text' }
file { '/srv/files/copy': source => '/etc/debian_version', mode => 'u=rw,go=r' }
file { '/srv/files/secret': content => Sensitive('hush'), mode => '0600' }
file { '/srv/files/kept': content => 'x', backup => '.old', replace => false, validate_cmd => '/bin/test -s %' }
file { '/etc/motd.tail': ensure => absent }
file { '/srv/www': ensure => directory, recurse => true, purge => true, force => true, ignore => 'index*', mode => '0644' }
exec { 'touch /srv/files/umask': umask => '077', creates => '/srv/files/umask', require => File['/srv/files'] }
exec { 'as somebody':
  command     => 'echo $WORD $PWD > /srv/files/command; id -un >> /srv/files/command',
  provider    => shell,
  environment => ['WORD=hello'],
  cwd         => '/srv/www',
  returns     => [0, 3],
  unless      => 'test -e /srv/files/command',
  require     => File['/srv/files'],
}
exec { 'a list': command => ['touch', '/srv/files/a b'], onlyif => 'test ! -e "/srv/files/a b"', require => File['/srv/files'] }
exec { 'told': command => 'touch /srv/files/told', refreshonly => true, subscribe => File['/srv/files/text'] }
tidy { '/srv/tidy': age => '1w', recurse => true, matches => '*.tmp', type => mtime }
augeas { 'words': context => '/files/etc/default/example-time', changes => ['set OPTIONS -4', 'set LEVEL 3'] }
