define sudo::conf(Integer $priority = 10, String $content = '') {
  file { "/nowhere/sudoers.d/${priority}_${name}":
    ensure  => file,
    owner   => 'root',
    group   => 'root',
    mode    => '0440',
    content => "${content}\n",
    notify  => Exec["check ${name}"],
  }
  exec { "check ${name}": command => 'visudo -c', refreshonly => true, path => ['/bin', '/usr/sbin'] }
}
file { '/nowhere/sudoers.d': ensure => directory, recurse => true, purge => true, mode => '0550' }
sudo::conf { 'admins': content => '%admins ALL=(ALL) ALL' }
#=> file[/nowhere/sudoers.d] path=/nowhere/sudoers.d/ state=exists mode=0550 recurse=true purge=true spread=true keepdirectories=true instead=true
#=> file[/nowhere/sudoers.d/10_admins] path=/nowhere/sudoers.d/10_admins state=exists content=%admins ALL=(ALL) ALL\n owner=root group=root mode=0440 instead=true
#=> exec[check admins] cmd=visudo -c shell=/bin/sh env={"LANG": "C", "PATH": "/bin:/usr/sbin"} refreshonly=true meta:timeout=300000
#=> exec[check admins] ~> noop[completed_Sudo::Conf[admins]]
#=> file[/nowhere/sudoers.d/10_admins] ~> exec[check admins]
#=> file[/nowhere/sudoers.d/10_admins] ~> noop[completed_Sudo::Conf[admins]]
#=> file[/nowhere/sudoers.d] -> file[/nowhere/sudoers.d/10_admins]
#=> file[/nowhere/sudoers.d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/sudoers.d]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Sudo::Conf[admins]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Sudo::Conf[admins]] ~> exec[check admins]
#=> noop[admissible_Sudo::Conf[admins]] ~> file[/nowhere/sudoers.d/10_admins]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Sudo::Conf[admins]] ~> noop[completed_Class[Main]]
