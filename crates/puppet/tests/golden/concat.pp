concat { '/nowhere/motd': owner => 'root', mode => '0644', ensure_newline => true }
concat::fragment { 'b': target => '/nowhere/motd', content => 'second', order => '20' }
concat::fragment { 'a': target => '/nowhere/motd', content => 'first', order => '5' }
#=> file[/nowhere/motd] path=/nowhere/motd state=exists content=second\nfirst\n owner=root mode=0644 instead=true bucket=/var/cache/puppet/clientbucket
#=> noop[Concat_fragment[b]]
#=> noop[Concat_fragment[a]]
#=> file[/nowhere/motd] ~> noop[completed_Concat[/nowhere/motd]]
#=> noop[Concat_fragment[a]] ~> noop[completed_Concat::Fragment[a]]
#=> noop[Concat_fragment[b]] ~> noop[completed_Concat::Fragment[b]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat::Fragment[a]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat::Fragment[b]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat[/nowhere/motd]]
#=> noop[admissible_Concat::Fragment[a]] ~> noop[Concat_fragment[a]]
#=> noop[admissible_Concat::Fragment[b]] ~> noop[Concat_fragment[b]]
#=> noop[admissible_Concat[/nowhere/motd]] ~> file[/nowhere/motd]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Concat::Fragment[a]] ~> noop[completed_Class[Main]]
#=> noop[completed_Concat::Fragment[b]] ~> noop[completed_Class[Main]]
#=> noop[completed_Concat[/nowhere/motd]] ~> noop[completed_Class[Main]]
