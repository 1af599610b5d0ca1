package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/store/durable"
)

// typical is the record of a deployed container.
func typical(id string) store.Record {
	r := reservation(workload.TypeContainer, id, `{"flist":"`+strings.Repeat("x", 1000)+`"}`, time.Now(), time.Hour)
	return answered(record(r, store.Deployed), store.Deployed, workload.StateOK)
}

func BenchmarkEncode(b *testing.B) {
	r := typical("1-1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.Encode(r); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWrite writes several records at once, in memory and on a disk.
func BenchmarkWrite(b *testing.B) {
	for _, where := range []string{"memory", "disk"} {
		for _, size := range []int{1, 4, 32} {
			b.Run(fmt.Sprintf("%s/%d", where, size), func(b *testing.B) {
				root := b.TempDir()
				if where == "memory" {
					root = fastDir(b)
				}
				s := open(b, store.Config{Root: root})
				var batch []store.Record
				for i := range size {
					batch = append(batch, typical(fmt.Sprintf("%d-1", i+1)))
				}
				b.ReportAllocs()
				for b.Loop() {
					for i := range batch {
						batch[i].Result.Sequence = 0
					}
					if _, err := s.Write(batch...); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
			})
		}
	}
}

// BenchmarkPut is the disk's part of that.
func BenchmarkPut(b *testing.B) {
	file, err := store.Encode(typical("1-1"))
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1, 4, 32} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p, err := durable.OpenFS(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			var objects []durable.Object
			for i := range size {
				objects = append(objects, durable.Object{Name: fmt.Sprintf("%d-1", i+1), Data: file})
			}
			for b.Loop() {
				if err := p.Put(objects...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// BenchmarkArrival is the queries and writes of one arrival, beside that many records,
// without the disk.
func BenchmarkArrival(b *testing.B) {
	for _, many := range []int{100, 10000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			s := open(b, store.Config{Root: fastDir(b), Demand: demandOf})
			for from := 0; from < many; from += 100 {
				var batch []store.Record
				for i := from; i < from+100; i++ {
					rec := typical("1-1").Clone()
					rec.Reservation.ID = fmt.Sprintf("%d-1", i+1)
					rec.Hash = workload.Hash{byte(i), byte(i >> 8), 1}
					batch = append(batch, rec)
				}
				if _, err := s.Write(batch...); err != nil {
					b.Fatal(err)
				}
			}
			r := typical("1-2")
			b.ReportAllocs()
			for b.Loop() {
				s.Usage(r.Reservation.User)
				s.Newest(r.Name)
				s.Counters()
				r.Result.Sequence = 0
				if _, err := s.Write(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
