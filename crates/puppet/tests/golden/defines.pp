define vhost(Integer $port = 80) {
  file { "/nowhere/${name}.conf": content => "port ${port}\n" }
}
vhost { 'a': }
vhost { 'b': port => 8080, require => Vhost['a'] }
#=> file[/nowhere/a.conf] path=/nowhere/a.conf state=exists content=port 80\n instead=true
#=> file[/nowhere/b.conf] path=/nowhere/b.conf state=exists content=port 8080\n instead=true
#=> file[/nowhere/a.conf] ~> noop[completed_Vhost[a]]
#=> file[/nowhere/b.conf] ~> noop[completed_Vhost[b]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Vhost[a]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Vhost[b]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[admissible_Vhost[a]] ~> file[/nowhere/a.conf]
#=> noop[admissible_Vhost[b]] ~> file[/nowhere/b.conf]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Vhost[a]] -> noop[admissible_Vhost[b]]
#=> noop[completed_Vhost[a]] ~> noop[completed_Class[Main]]
#=> noop[completed_Vhost[b]] ~> noop[completed_Class[Main]]
