file { '/nowhere/a': ensure => file, mode => 'u=rw,go=r' }
file { '/nowhere/b': ensure => file, mode => 'go-w' }
file { '/nowhere/d': ensure => directory, mode => 'u=rwX,go=rX' }
file { '/nowhere/e': ensure => file, mode => 'u+X' }
#=> file[/nowhere/a] path=/nowhere/a state=exists mode=u=rw,go=r instead=true
#=> file[/nowhere/b] path=/nowhere/b state=exists modechange=go-w instead=true
#=> file[/nowhere/d] path=/nowhere/d/ state=exists modechange=u=rwx,go=rx instead=true
#=> pippet[File[/nowhere/e]] type=file title=/nowhere/e params={"ensure":"file","mode":"u+X"} paths=["/nowhere/e"] watchfiles=["/nowhere/e"] interval=1800
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> file[/nowhere/d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/d]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/e]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/e]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/e] is left to Puppet: `file` refuses it: `modechange`: "u+X" is not a file mode: 'X' after = is no permission; use r, w, x, s (setuid, setgid) or t (sticky)
