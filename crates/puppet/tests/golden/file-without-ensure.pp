file { '/nowhere/a': mode => '0600', owner => 'root' }
#=> pippet[File[/nowhere/a]] type=file title=/nowhere/a params={"mode":"0600","owner":"root"} paths=["/nowhere/a"] watchfiles=["/nowhere/a"] interval=1800
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/a]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/a]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/a] is left to Puppet: `ensure` is not given, and so it may be a file or a directory
