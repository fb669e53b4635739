file { '/nowhere/a':
  ensure  => file,
  owner   => 'root',
  group   => 'adm',
  mode    => '0640',
  content => "one\ntwo\n",
}
#=> file[/nowhere/a] path=/nowhere/a state=exists content=one\ntwo\n owner=root group=adm mode=0640 instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
