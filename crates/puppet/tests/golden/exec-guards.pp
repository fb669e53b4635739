exec { 'make':
  command => '/usr/bin/make',
  cwd     => '/nowhere',
  creates => '/nowhere/out',
  unless  => ['/bin/test -e /a', '/bin/test -e /b'],
  onlyif  => '/bin/test -d /nowhere',
}
#=> exec[make] cmd=/usr/bin/make cwd=/nowhere shell=/bin/sh env={"LANG": "C", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"} watchfiles=["/bin/test", "/nowhere", "/a", "/b", "/nowhere/out"] interval=1800 ifcmd=/bin/test -d /nowhere ifcwd=/nowhere ifshell=/bin/sh nifcmd=(\n/bin/test -e /a\n) || (\n/bin/test -e /b\n) nifcwd=/nowhere nifshell=/bin/sh creates=/nowhere/out meta:timeout=300000
#=> exec[make] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> exec[make]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
