package workload_test

import (
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// BenchmarkAccept measures the cost of a pushed document: decode, verify, validate.
func BenchmarkAccept(b *testing.B) {
	for _, name := range []string{"volume", "container", "network"} {
		body := []byte(readRecorded(b, name).Post.Request)
		for _, version := range []int{workload.V1, workload.V2} {
			r, err := workload.Decode(body)
			if err != nil {
				b.Fatal(err)
			}
			r.Version = version
			if err := r.Sign(testKey(b, "user").Private()); err != nil {
				b.Fatal(err)
			}
			document, err := workload.Encode(r)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+map[int]string{workload.V1: "/v1", workload.V2: "/v2"}[version], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r, err := workload.Decode(document)
					if err != nil {
						b.Fatal(err)
					}
					if err := workload.Verify(r); err != nil {
						b.Fatal(err)
					}
					if err := workload.Validate(r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
