concat { '/nowhere/c.json': format => 'json-pretty' }
concat::fragment { 'a': target => '/nowhere/c.json', content => '{"a": 1}' }
concat::fragment { 'b': target => '/nowhere/c.json', content => '{"b": [1, 2]}' }
#=> file[/nowhere/c.json] path=/nowhere/c.json state=exists content={\n  "a": 1,\n  "b": [\n    1,\n    2\n  ]\n} mode=0644 instead=true bucket=/var/cache/puppet/clientbucket
#=> noop[Concat_fragment[a]]
#=> noop[Concat_fragment[b]]
#=> file[/nowhere/c.json] ~> noop[completed_Concat[/nowhere/c.json]]
#=> noop[Concat_fragment[a]] ~> noop[completed_Concat::Fragment[a]]
#=> noop[Concat_fragment[b]] ~> noop[completed_Concat::Fragment[b]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat::Fragment[a]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat::Fragment[b]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Concat[/nowhere/c.json]]
#=> noop[admissible_Concat::Fragment[a]] ~> noop[Concat_fragment[a]]
#=> noop[admissible_Concat::Fragment[b]] ~> noop[Concat_fragment[b]]
#=> noop[admissible_Concat[/nowhere/c.json]] ~> file[/nowhere/c.json]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Concat::Fragment[a]] ~> noop[completed_Class[Main]]
#=> noop[completed_Concat::Fragment[b]] ~> noop[completed_Class[Main]]
#=> noop[completed_Concat[/nowhere/c.json]] ~> noop[completed_Class[Main]]
