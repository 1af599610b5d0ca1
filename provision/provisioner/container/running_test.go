package container_test

import (
	"context"
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// Regression: a final error of Provision for a running container released its image,
// which the container still used.
func TestAFinalErrorTakesNothingFromARunningContainer(t *testing.T) {
	for _, call := range []string{"owner", "Images.Pull", "Storage.CreateFilesystem", "Containers.Create", "Networks.Join", "Containers.Start"} {
		t.Run(call, func(t *testing.T) {
			f := newWorld(t)
			r := f.reservation(aContainer(`,"mounts":[{"volume_id":"1-1","mountpoint":"/data"}]`))
			if _, err := f.provisioner().Provision(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			before := f.left()
			if never := node.Errorf(node.Refused, "never"); call == "owner" {
				f.unread[call] = never
			} else {
				f.Fail(call, never)
			}
			if _, err := f.provisioner().Provision(context.Background(), r); call != "Storage.CreateFilesystem" && node.KindOf(err) != node.Refused {
				t.Fatalf("it answers %v", err)
			}
			if after := f.left(); !slices.Equal(after, before) {
				t.Fatalf("on the node is %v, was %v", after, before)
			}
		})
	}
}
