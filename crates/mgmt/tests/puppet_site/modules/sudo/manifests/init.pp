# Who may do what. The rules are put together of fragments.
class sudo(Hash $rules) {
  file { '/etc/example-sudoers.d': ensure => directory, mode => '0750', recurse => true, purge => true, force => true }
  concat { '/etc/example-sudoers': owner => 'root', group => 'root', mode => '0440', ensure_newline => true }
  concat::fragment { 'sudo header': target => '/etc/example-sudoers', content => "Defaults env_reset", order => '01' }
  $rules.each |$name, $rule| { sudo::rule { $name: * => $rule } }
  concat { '/etc/example-sudo.json': format => 'json-pretty' }
  concat::fragment { 'json a': target => '/etc/example-sudo.json', content => '{"rules": ["a"], "log": {"to": "syslog"}}' }
  concat::fragment { 'json b': target => '/etc/example-sudo.json', content => '{"rules": ["b"], "log": {"level": 3}}', order => '20' }
}
define sudo::rule(String $who, String $what, Integer $order) {
  concat::fragment { "sudo ${name}": target => '/etc/example-sudoers', content => "${who} ${what}", order => $order }
  file { "/etc/example-sudoers.d/${name}": content => "${who} ${what}\n", mode => 'u=r,g=r,o=' }
}
