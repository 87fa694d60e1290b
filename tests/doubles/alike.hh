// tests/doubles/alike.hh - are two functions called the same way? As many parameters, of the same sizes, pointers where the other has some
#ifndef PLM_TESTS_DOUBLES_ALIKE_HH
#define PLM_TESTS_DOUBLES_ALIKE_HH

#include <type_traits>

template <class A, class B>
constexpr bool same = sizeof(A) == sizeof(B) && std::is_pointer<A>::value == std::is_pointer<B>::value;

template <class A, class B> struct alike : std::false_type {};
template <class R, class S, class... A, class... B>
struct alike<R (*)(A...), S (*)(B...)>
    : std::integral_constant<bool, same<R, S> && sizeof...(A) == sizeof...(B)> {};

template <class A, class B> struct parameters : std::false_type {};
template <class R, class S> struct parameters<R (*)(), S (*)()> : std::true_type {};
template <class R, class S, class A, class B, class... As, class... Bs>
struct parameters<R (*)(A, As...), S (*)(B, Bs...)>
    : std::integral_constant<bool, same<A, B> && parameters<R (*)(As...), S (*)(Bs...)>::value> {};

#endif
