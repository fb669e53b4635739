file { '/nowhere/a': content => 'x', backup => '.old', validate_cmd => '/usr/sbin/visudo -cf %' }
file { '/nowhere/b': content => 'x', backup => false, replace => false }
filebucket { 'main': path => false, server => 'puppet' }
file { '/nowhere/c': content => 'x', backup => 'main' }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=x validatecmd=/usr/sbin/visudo -cf % backup=.old instead=true
#=> file[/nowhere/b] path=/nowhere/b state=exists content=x createonly=true instead=true
#=> noop[Filebucket[main]]
#=> pippet[File[/nowhere/c]] type=file title=/nowhere/c params={"content":"x","backup":"main"} context=[{"type":"filebucket","title":"main","parameters":{"path":false,"server":"puppet"},"sensitive":[],"passive":true}] paths=["/nowhere/c"] watchfiles=["/nowhere/c"] interval=1800
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> noop[Filebucket[main]] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> noop[Filebucket[main]]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/c]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/c]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/c] is left to Puppet: `backup` names a bucket that is on a server
