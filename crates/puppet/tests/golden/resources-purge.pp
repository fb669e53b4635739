host { 'a': ip => '192.0.2.1' }
resources { 'host': purge => true }
#=> host[a] state=exists hostname=a ip=192.0.2.1
#=> pippet[Resources[host]] type=resources title=host params={"purge":true} context=[{"type":"host","title":"a","parameters":{"ip":"192.0.2.1"},"sensitive":[],"passive":false}] meta:poll=1800
#=> host[a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> host[a]
#=> noop[admissible_Class[Main]] ~> pippet[Resources[host]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Resources[host]] ~> noop[completed_Class[Main]]
#=> Resources[host] is left to Puppet: no kind does the same
