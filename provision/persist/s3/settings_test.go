package s3_test

import (
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist/s3"
)

// Errors about settings name the field, the value and what is allowed; secrets make no difference to names.
func TestSettings(t *testing.T) {
	for field, change := range map[string]func(i *s3.Instance){
		`endpoint is "https://a"`: func(i *s3.Instance) { i.Endpoint = "https://a" },
		`endpoint is "a:b"`:       func(i *s3.Instance) { i.Endpoint = "a:b" },
		`endpoint is ""`:          func(i *s3.Instance) { i.Endpoint = "" },
		`bucket is "A"`:           func(i *s3.Instance) { i.Bucket = "A" },
		`region is "a b"`:         func(i *s3.Instance) { i.Region = "a b" },
		`prefix is "/a"`:          func(i *s3.Instance) { i.Prefix = "/a" },
		`prefix is "a/../b"`:      func(i *s3.Instance) { i.Prefix = "a/../b" },
		`prefix is "a//b"`:        func(i *s3.Instance) { i.Prefix = "a//b" },
		`cannot get secret ""`:    func(i *s3.Instance) { i.Keys = "" },
	} {
		i := instance("127.0.0.1:1", "a")
		change(&i)
		if _, err := s3.New(s3.Config{Instances: []s3.Instance{i}, Secrets: s3test.Known()}); node.KindOf(err) != node.Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	one, other := instance("127.0.0.1:1", "a"), instance("127.0.0.1:1", "a")
	other.Keys = "new"
	a, b := provider(t, s3.Config{Instances: []s3.Instance{one}}), provider(t, s3.Config{Instances: []s3.Instance{other}})
	if a.Instances()[0] != b.Instances()[0] || !strings.HasPrefix(a.Instances()[0], "s3-") {
		t.Errorf("%v, %v", a.Instances(), b.Instances())
	}
	if _, err := s3.New(s3.Config{Instances: []s3.Instance{one, other}, Secrets: s3test.Known()}); node.KindOf(err) != node.Invalid {
		t.Errorf("twice: %v", err)
	}
}
