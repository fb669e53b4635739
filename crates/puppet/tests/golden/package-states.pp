package { 'a': ensure => installed }
package { 'b': ensure => latest }
package { 'c': ensure => absent }
package { 'd': ensure => purged }
package { 'e': ensure => '1:2.3-4' }
package { 'f': ensure => held }
#=> pkg[a]
#=> pkg[b] state=newest
#=> pkg[c] state=uninstalled
#=> pkg[d] state=purged
#=> pkg[e] state=1:2.3-4 allowdowngrade=true
#=> pkg[f] hold=true
#=> noop[admissible_Class[Main]] ~> pkg[a]
#=> noop[admissible_Class[Main]] ~> pkg[b]
#=> noop[admissible_Class[Main]] ~> pkg[c]
#=> noop[admissible_Class[Main]] ~> pkg[d]
#=> noop[admissible_Class[Main]] ~> pkg[e]
#=> noop[admissible_Class[Main]] ~> pkg[f]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pkg[a] ~> noop[completed_Class[Main]]
#=> pkg[b] ~> noop[completed_Class[Main]]
#=> pkg[c] ~> noop[completed_Class[Main]]
#=> pkg[d] ~> noop[completed_Class[Main]]
#=> pkg[e] ~> noop[completed_Class[Main]]
#=> pkg[f] ~> noop[completed_Class[Main]]
