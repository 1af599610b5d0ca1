package carrier

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

func TestTheCarrierAnswersNames(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	wants(t, node.NotExist, "net1", client.RemoveZone(t.Context(), "net1"))
	zone := Zone{ID: "net1", Namespace: s.tenant, Network: "home", Names: map[string][]netip.Addr{"web": {s.inner}}}
	must(t, client.SetZone(t.Context(), zone))
	zones, err := client.Zones(t.Context())
	if err != nil || len(zones) != 1 || zones[0].ID != "net1" || zones[0].Broken != "" || zones[0].Digest != Digest(zone) {
		t.Errorf("%+v %v", zones, err)
	}
	for _, network := range []string{"udp", "tcp"} {
		must(t, netns.Do(s.tenant, func() error {
			answer, _, err := (&dns.Client{Net: network}).Exchange(new(dns.Msg).SetQuestion("web.", dns.TypeA), "127.0.0.1:53")
			if err == nil && (len(answer.Answer) != 1 || answer.Answer[0].(*dns.A).A.String() != s.inner.String()) {
				t.Errorf("%s: %s", network, answer)
			}
			return err
		}))
	}
	must(t, client.RemoveZone(t.Context(), "net1"))
	if zones, err := client.Zones(t.Context()); err != nil || len(zones) != 0 {
		t.Errorf("removed: %+v %v", zones, err)
	}
}
