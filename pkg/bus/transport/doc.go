// Package transport lies between the bus's clients and servers and the carriers of
// their frames: the contract of a carrier, the bounds of a frame, the readers of a
// channel, and the URLs of carriers.
//
// It knows neither calls nor any carrier.
package transport
