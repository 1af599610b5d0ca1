// Package monitor reads what the machine is and how much of it is in use. It
// owns nothing on disk and changes nothing.
//
// On the bus it serves monitor.system@0.0.1 and monitor.host@0.1.0.
package monitor
