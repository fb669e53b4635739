host { 'db.example.com': ip => '192.0.2.7', host_aliases => 'db', comment => 'the database' }
host { 'gone': ensure => absent }
#=> host[db.example.com] state=exists hostname=db.example.com ip=192.0.2.7 aliases=["db"] comment=the database
#=> host[gone] state=absent hostname=gone
#=> host[db.example.com] ~> noop[completed_Class[Main]]
#=> host[gone] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> host[db.example.com]
#=> noop[admissible_Class[Main]] ~> host[gone]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
