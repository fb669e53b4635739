# Values of the kernel, for the next boot.
class sysctl(Hash[String, String] $values) {
  $values.each |$name, $value| {
    file { "/etc/sysctl.d/60-${name}.conf": content => "${name} = ${value}\n", notify => Exec['values have changed'] }
  }
  exec { 'values have changed':
    command     => 'date +changed >> /var/lib/example-sysctl',
    path        => ['/bin', '/usr/bin'],
    refreshonly => true,
  }
}
