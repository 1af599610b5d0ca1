package node_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

func TestClaim(t *testing.T) {
	ours, theirs := strings.Repeat("1a", 32), strings.Repeat("2b", 32)
	for name, tt := range map[string]struct {
		claim node.Claim
		have  string
		want  node.Kind
	}{
		"the same hash":                     {node.Claim{Hash: ours}, ours, ""},
		"another hash":                      {node.Claim{Hash: ours}, theirs, node.Exist},
		"another hash, whatever is adopted": {node.Claim{Hash: ours, AdoptUnlabelled: true}, theirs, node.Exist},
		"no hash":                           {node.Claim{Hash: ours}, "", node.Exist},
		"no hash, adopted":                  {node.Claim{Hash: ours, AdoptUnlabelled: true}, "", ""},
		"the node's own":                    {node.Claim{}, "", ""},
		"the node's own, of a reservation":  {node.Claim{}, theirs, node.Exist},
		"too short":                         {node.Claim{Hash: ours[:62]}, ours, node.Invalid},
		"capitals":                          {node.Claim{Hash: strings.ToUpper(ours)}, ours, node.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.claim.Check("create filesystem 7-1", tt.have)
			if tt.want == "" && err != nil || tt.want != "" && !errors.Is(err, tt.want) {
				t.Errorf("error is %v, want kind %q", err, tt.want)
			}
		})
	}
}
