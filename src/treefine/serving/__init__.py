"""A parser behind a web server: a JSON API, the UDPipe API, and a page to look at trees and to correct them."""
