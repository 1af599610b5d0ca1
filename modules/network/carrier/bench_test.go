package carrier

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/modules/network/wireguard"
)

// BenchmarkTunnel is iperf3 through two carriers, for the tunings that
// TUNINGS names ("8/128 16/256": batch and window), else the default.
func BenchmarkTunnel(b *testing.B) {
	standard := DefaultTuning()
	tunings := [][2]int{{standard.Batch, standard.Window}}
	if text := os.Getenv("TUNINGS"); text != "" {
		tunings = nil
		for _, pair := range strings.Fields(text) {
			var t [2]int
			fmt.Sscanf(pair, "%d/%d", &t[0], &t[1])
			tunings = append(tunings, t)
		}
	}
	for _, tuning := range tunings {
		b.Run(fmt.Sprintf("batch=%d/window=%d", tuning[0], tuning[1]), func(b *testing.B) {
			x, y := connected(b, strconv.Itoa(tuning[0]), strconv.Itoa(tuning[1]))
			for b.Loop() {
				b.ReportMetric(iperf(b, x, y), "Mbit/s")
			}
			for name, s := range map[string]*site{"sender": x, "receiver": y} {
				info, err := s.client.Info(b.Context())
				must(b, err)
				b.ReportMetric(float64(info.Memory)/1e6, name+"-MB")
				peak, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", info.PID))
				for line := range strings.Lines(string(peak)) {
					if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
						kib, _ := strconv.Atoi(strings.Fields(v)[0])
						b.ReportMetric(float64(kib)/1000, name+"-peak-MB")
					}
				}
			}
		})
	}
}

func iperf(b *testing.B, from, to *site) float64 {
	b.Helper()
	server := exec.Command("nsenter", "--net="+to.tenant, "iperf3", "-s", "-1")
	must(b, server.Start())
	defer func() {
		_ = server.Process.Kill() // it ends by itself only after a test that went well
		_ = server.Wait()
	}()
	var r struct {
		End struct {
			SumReceived struct {
				BPS float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	until(b, "iperf3", func() bool {
		out, err := exec.Command("nsenter", "--net="+from.tenant, "iperf3", "-J", "-t", "4", "-c", to.inner.String()).Output()
		return err == nil && json.Unmarshal(out, &r) == nil && r.End.SumReceived.BPS > 0
	})
	return r.End.SumReceived.BPS / 1e6
}

// BenchmarkIdle is the memory of a carrier with idle devices.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{1, 20, 200} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s, other := newSite(b, 1), newSite(b, 2)
			client := s.start(b)
			for i := range n {
				key, _ := wgtypes.GeneratePrivateKey()
				c := s.config(other.peer(true))
				c.PrivateKey, c.ListenPort, c.Name = wireguard.Key(key), 0, fmt.Sprint("wg", i)
				must(b, client.SetDevice(b.Context(), fmt.Sprint("net", i), c))
			}
			for b.Loop() {
				info, err := client.Info(b.Context())
				must(b, err)
				b.ReportMetric(float64(info.Memory)/1e6, "MB")
			}
		})
	}
}
